#!/usr/bin/env bash
# Runs flower-digits over TLS on this machine: a SuperLink and SuperNodes on loopback, each node
# known to the SuperLink by its key, with its own identity key, pinned peers, Paillier key and
# ledger. Ends every process it started. WORK/node-0.sh and its like start a node again.
#
#   examples/flower-deployment.sh [PROTECTION]      e.g. paillier:clip_range=4.0,mode=blind
#
# Needs openssl, ssh-keygen, and flwr and trilemma in the Python that is first in PATH. Settings, by
# environment: NODES, LEAST_NODES, THRESHOLD, ROUNDS, PORT (and the NODES ports after it), LATE
# (seconds after which the last node starts), LIMIT (seconds), WORK; APP and RUN_CONFIG for another
# app than flower-digits.
set -euo pipefail

protection=${1:-secret-sharing:clip_range=4.0,precision_bits=20,max_weight=2000}
nodes=${NODES:-3}
port=${PORT:-9480}
work=${WORK:-$(mktemp -d)}
app=${APP:-$(cd "$(dirname "$0")/flower-digits" && pwd)}

# Flower: no telemetry, no look for updates, no installation of packages at run time.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 FLWR_HOME=$work/flwr
mkdir -p "$FLWR_HOME"

start() { # a process in a group of its own, so that its children end with it
  local name=$1
  shift
  setsid "$@" >"$work/$name.log" 2>&1 &
  echo $! >"$work/$name.pid"
}

cleanup() {
  local signal file
  for signal in TERM KILL; do
    for file in "$work"/*.pid; do
      kill "-$signal" -- "-$(cat "$file")" 2>/dev/null || true
    done
    [ "$signal" = KILL ] || sleep 2
  done
  echo "logs are in $work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cd "$work"
umask 077
{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=loopback CA" \
    -keyout ca.key -out ca.crt
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout server.key -out server.csr
  echo "subjectAltName=IP:127.0.0.1,DNS:localhost" >server.ext
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
    -extfile server.ext -out server.pem
} 2>openssl.log
for ((i = 0; i < nodes; i++)); do
  openssl genpkey -algorithm ed25519 -out "identity-$i.pem"
  openssl pkey -in "identity-$i.pem" -pubout >>peers.pem
  ssh-keygen -q -t ecdsa -b 384 -N "" -C "node $i" -f "auth-$i"
done
python - <<'PYTHON'
from pathlib import Path

from trilemma.crypto.keyfiles import save_private, save_public
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

key = PrivateKey.generate(System(), bits=3072)
save_private(key, Path("paillier.key"))
save_public(key.public, Path("paillier.pub"))
PYTHON
public_key=""
case $protection in *paillier*) public_key=$work/paillier.pub ;; esac

cat >"$FLWR_HOME/config.toml" <<TOML
[superlink]
default = "loopback"

[superlink.loopback]
address = "127.0.0.1:$port"
root-certificates = "$work/ca.crt"
TOML

start superlink flower-superlink --host 127.0.0.1 --port "$port" --ssl-ca-certfile ca.crt \
  --ssl-certfile server.pem --ssl-keyfile server.key --enable-supernode-auth --disable-runtime-dependency-installation
for ((wait = 0; wait < 60; wait++)); do
  (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  sleep 1
done
for ((i = 0; i < nodes; i++)); do
  flwr supernode register "auth-$i.pub" loopback >>register.log
  late=0
  ((i < nodes - 1)) || late=${LATE:-0}
  cat >"node-$i.sh" <<SCRIPT
cd "$work"
exec flower-supernode --superlink "127.0.0.1:$port" --root-certificates ca.crt \
  --auth-supernode-private-key auth-$i --host 127.0.0.1 --port $((port + 1 + i)) \
  --node-config 'partition-id=$i num-partitions=$nodes trilemma-key="$work/paillier.key" \
trilemma-identity="$work/identity-$i.pem" trilemma-peers="$work/peers.pem" \
trilemma-ledger="$work/ledger-$i" trilemma-data="digits-$i"'
SCRIPT
  start "node-$i" bash -c "sleep $late; exec bash node-$i.sh"
done

if [ -n "${APP:-}" ]; then
  timeout "${LIMIT:-600}" flwr run "$app" loopback --stream --run-config "$RUN_CONFIG" 2>&1 |
    tee run.log
  exit
fi
timeout "${LIMIT:-600}" flwr run "$app" loopback --stream --run-config \
  "protection=\"$protection\" public-key=\"$public_key\" nodes=$nodes \
least-nodes=${LEAST_NODES:-$nodes} threshold=${THRESHOLD:-0} rounds=${ROUNDS:-2} \
evaluate-every-round=${EVALUATE:-true}" 2>&1 | tee run.log
grep "round ${ROUNDS:-2}: train" run.log | grep -qv "'survivors': 0.0" || {
  echo "the federation did not finish its ${ROUNDS:-2} rounds" >&2
  exit 1
}
