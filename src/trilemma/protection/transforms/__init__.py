"""What changes an update before it leaves: noise, compression, bounded masks; one file each."""
