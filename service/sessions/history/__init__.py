"""How sessions developed: samples taken beside the commits, thinned with age."""
