/** `npm test`: everything that `npm run check` does, then the tests with real processes, loads and whole systems. */
import { setUp, wantDebian } from './setup.mjs'

const node = setUp({ dev: true })
const { runSteps, checkSteps, unitTests, systemTests } = await import('./steps.mjs')
const missing = [wantDebian('bwrap', 'bubblewrap')].filter((reason) => reason !== null)
process.exitCode = runSteps([...checkSteps(), unitTests(node), systemTests(node)], missing)
