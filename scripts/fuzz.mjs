/** `npm run fuzz -- [--minutes N] [--seed S] …`: random model streams through the gateway, judged by a reader of its own. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
process.exitCode = step(node, [
  '--disable-warning=ExperimentalWarning',
  join('e2e', 'fuzz', 'run.ts'),
  ...process.argv.slice(2),
])
