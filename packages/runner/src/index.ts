/** The runner: boxes and execs over HTTP. Its client is `@breakfall/runner/client`. */
export type { JoinOptions } from './join/start-joining.ts'
export type { RunnerOptions } from './options.ts'
export { type Runner, startRunner } from './start.ts'
