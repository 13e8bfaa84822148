"""What leaves the hub by itself: its audit and its messages, to receivers outside, each at its own pace.

In: audit entries and seals that were committed, outlets that the settings name, and what ``notifications`` has to send.
Out: lines of JSON to a file, to syslog or to a webhook, in the order of the audit, each at least once; a position for
each receiver that moves only when that has taken them. Run by threads of ``embedded``; how far behind they are is read
by hub health.
"""
