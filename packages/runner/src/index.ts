/** The runner: boxes and execs over HTTP. Its client is `@breakfall/runner/client`. */
export type { JoinOptions, RunnerOptions } from './host/options.ts'
export { type Runner, startRunner } from './server/start.ts'
