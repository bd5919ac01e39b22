/**
 * `npm run console:shots`: pictures of every screen and state, in both themes and two widths, into packages/console/shots.
 * With `-- --docs`: only those of the README and the docs, into docs.
 */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, rerunUnder, setUp } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const { takeShots } = await import(join(root, 'packages/console/test/kit/shots.ts'))
const folder = join(root, 'packages/console/shots')
const DOCS = { fleet: 'fleet', 'turn-retrying': 'turn', 'turn-away': 'killed' }

if (process.argv.includes('--docs')) {
  await takeShots(folder, Object.keys(DOCS))
  for (const [shot, name] of Object.entries(DOCS))
    copyFileSync(join(folder, `${shot}-1280-light.png`), join(root, `docs/console-${name}.png`))
} else
  await takeShots(
    folder,
    process.argv.slice(2).filter((word) => !word.startsWith('-')),
  )
