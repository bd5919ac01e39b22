/** `npm run check`: format, typed lint, types and unit tests. Takes less than a minute. */
import { rerunUnder, setUp } from './setup.mjs'

const node = setUp({ dev: true })
rerunUnder(node, import.meta.url)
const { runSteps, checkSteps, unitTests } = await import('./steps.mjs')
process.exitCode = runSteps([...checkSteps(), unitTests(node)])
