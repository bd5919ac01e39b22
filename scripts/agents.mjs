/** `npm run agents`: runs real coding agents under faults, alone and behind the gateway. Downloads them on its first run. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
process.exitCode = step(node, [join('bench', 'agents', 'main.ts'), ...process.argv.slice(2)])
