"""HTTP tools: requests that a manifest describes, sent by this process."""
