// What the run was started with.

// Where node's packages are, the program, and where screenshots go: nowhere when that is empty.
export const [modules, program, pictures] = process.argv.slice(2);

// How long to wait for what must come; a test that needs it all has failed.
export const PATIENCE = 60_000;
