/** `npm test`: everything that `npm run check` does, then the tests with real processes, loads and whole systems. */
import { goOnUnder, setUp, wantDebian } from './setup.mjs'

const node = setUp({ dev: true })
goOnUnder(node, import.meta.url)
const { runSteps, checkSteps, unitTests, systemTests } = await import('./steps.mjs')
const missing = [wantDebian('bwrap', 'bubblewrap')].filter((reason) => reason !== null)
process.exitCode = runSteps([...checkSteps(), unitTests(node), systemTests(node)], missing)
