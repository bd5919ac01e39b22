/** `npm test`: everything that `npm run check` does, then the tests with real processes, load and whole systems. */
import { rerunUnder, setUp, wantDebian } from './setup.mjs'

const node = setUp({ dev: true })
rerunUnder(node, import.meta.url)
const { runSteps, checkSteps, unitTests, systemTests } = await import('./steps.mjs')
const missing = [wantDebian('bwrap', 'bubblewrap'), wantDebian('chromium', 'chromium')].filter(
  (reason) => reason !== null,
)
process.exitCode = runSteps([...checkSteps(), unitTests(node), systemTests(node)], missing)
