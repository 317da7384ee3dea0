// Server in Node that has its child process make a probe: probe_server.js PYTHON probe_server.py PROBE GROUND
const {spawnSync} = require("child_process");
const [program, ...args] = process.argv.slice(2);
spawnSync(program, args, {stdio: "inherit"});
