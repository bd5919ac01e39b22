/** The runner: boxes and execs over HTTP. Its client is `@breakfall/runner/client`. */
export type { RunnerOptions } from './options.ts'
export { pathOf } from './route-path.ts'
export { type RouteName, RUNNER_ROUTES } from './routes.ts'
export { type Runner, startRunner } from './start.ts'
