/** The runner: boxes and execs over HTTP. Its client is `@breakfall/runner/client`. */
export { pathOf, type RouteName, RUNNER_ROUTES } from './routes.ts'
export { type Runner, type RunnerOptions, startRunner } from './start.ts'
