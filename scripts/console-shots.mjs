/** `npm run console:shots`: pictures of every screen and state, in both themes and two widths, into packages/console/shots. */
import { join } from 'node:path'
import { root, rerunUnder, setUp } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const { takeShots } = await import(join(root, 'packages/console/test/kit/shots.ts'))
await takeShots(
  join(root, 'packages/console/shots'),
  process.argv.slice(2).filter((word) => !word.startsWith('-')),
)
