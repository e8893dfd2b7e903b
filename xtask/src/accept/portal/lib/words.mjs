// Arguments and constants of the run.

// Directory of the Node packages, the program, directory for screenshots (empty: none), Debian's resource agents, and etcd.
export const [modules, program, pictures, agents, etcd] = process.argv.slice(2);

// Timeout for conditions. A test that reaches it has failed.
export const PATIENCE = 60_000;
