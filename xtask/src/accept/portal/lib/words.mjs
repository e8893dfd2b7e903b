// Arguments and constants of the run.

// Directory of the Node packages, the program, directory for screenshots (empty: none), and Debian's resource agents.
export const [modules, program, pictures, agents] = process.argv.slice(2);

// Timeout for conditions. A test that reaches it has failed.
export const PATIENCE = 60_000;
