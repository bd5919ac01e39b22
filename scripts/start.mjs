/** `npm start`: sets up what is missing and runs one turn to its end. Arguments after `--` go to `breakfall run`. */
import { join } from 'node:path'
import { become, root, setUp } from './setup.mjs'

const node = setUp({ dev: false })
// npm runs scripts in the checkout; the work belongs to the folder that the person is in.
const cwd = process.env.INIT_CWD ?? process.cwd()
become(node, [join(root, 'packages/cli/src/main.ts'), 'run', ...process.argv.slice(2)], cwd)
