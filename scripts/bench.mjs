/** `npm run bench [NAME…]`: runs the benchmarks one after another: in parallel they would disturb each other. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root, setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
const names = readdirSync(join(root, 'bench'))
  .filter((file) => file.endsWith('.ts') && file !== 'kit.ts')
  .map((file) => file.slice(0, -3))
  .filter((name) => wanted.length === 0 || wanted.includes(name))
if (names.length === 0) process.stderr.write(`There is no benchmark with that name. The folder bench lists them.\n`)
for (const name of names) {
  const code = step(node, [join('bench', `${name}.ts`)])
  if (code !== 0) process.exitCode = code
}
if (names.length === 0) process.exitCode = 2
