"""Simulated fleets: thousands of registration agents in one process, over the hub's real API.

In: how many, and what is to happen to them. Out: a report of latencies, errors and recoveries. Called by
``manage.py simulate_fleet``. Each agent is ``registration.agent`` itself; simulated is what it speaks for.
"""
