/** `npm run recordings -- FOLDER`: recorded answers of model servers, replayed through the gateway and cut at every event. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
process.exitCode = step(node, [
  '--disable-warning=ExperimentalWarning',
  join('e2e', 'recordings', 'run.ts'),
  ...process.argv.slice(2),
])
