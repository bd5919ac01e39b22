/** `npm run fleet -- [--seed N] …`: random failures of a whole fleet on this machine. See `e2e/fleet/nemesis/run.ts`. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
process.exitCode = step(node, [
  '--disable-warning=ExperimentalWarning',
  join('e2e', 'fleet', 'nemesis', 'run.ts'),
  ...process.argv.slice(2),
])
