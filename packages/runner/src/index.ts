/** The runner: boxes and execs over HTTP. Its client is `@breakfall/runner/client`. */
export { RUNTIME_PROGRAMS } from './home/runtimes.ts'
export { APPARMOR_FIX } from './isolation/lacks.ts'
export type { JoinOptions } from './join/start-joining.ts'
export type { RunnerOptions } from './options.ts'
export { type Runner, startRunner } from './start.ts'
export { runnerIdIn } from './state/identity.ts'
