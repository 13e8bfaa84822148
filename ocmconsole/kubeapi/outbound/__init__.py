"""What leaves the hub by itself: its audit, to receivers outside, each at its own pace.

In: audit entries and seals that were committed, and outlets that the settings name. Out: lines of JSON to a file, to
syslog or to a webhook, in the order of the audit, each at least once; a position for each outlet that moves only when
its receiver has taken them. Run by threads of ``embedded``; how far behind they are is read by hub health.
"""
