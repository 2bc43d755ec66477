"""Numbers that senders put into their packets: a file a protocol, a table of them, and what gaps in them say."""
