"""How large an audit must be: simulated audits, searched for the cheapest one that is large enough."""
