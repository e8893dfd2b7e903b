// What the run was started with.

// Where node's packages are, the program, where screenshots go (nowhere when that is empty), and Debian's resource agents.
export const [modules, program, pictures, agents] = process.argv.slice(2);

// How long to wait for what must come; a test that needs it all has failed.
export const PATIENCE = 60_000;
