/** `npm run check`: format, typed lint, types, import graph and unit tests. Fast feedback, under a minute. */
import { goOnUnder, setUp } from './setup.mjs'

const node = setUp({ dev: true })
goOnUnder(node, import.meta.url)
const { runSteps, checkSteps, unitTests } = await import('./steps.mjs')
process.exitCode = runSteps([...checkSteps(), unitTests(node)])
