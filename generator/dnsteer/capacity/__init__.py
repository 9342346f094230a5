"""How fast hardware will forward a spec's packets, from published measurements; docs/capacity.md is the page about it."""
