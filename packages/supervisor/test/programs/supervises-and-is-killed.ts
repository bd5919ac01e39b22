// A supervisor with three children and their grandchildren, one of which ignores SIGTERM and one of which leaves its session.
// Tells their pids, and at a line on its input ends in the way that it was told.
import path from 'node:path'
import { supervise } from '../../src/index.ts'

const here = import.meta.dirname
const [how = 'wait', stateDir] = process.argv.slice(2)
const names = ['ignores-sigterm.sh', 'keeps-an-escapee.sh', 'prints-up-and-stays.sh']
const children = names.map((name) =>
  supervise({
    command: path.join(here, name),
    ready: { kind: 'line', pattern: /^up$/ },
    stdin: 'ignore',
    ...(stateDir === undefined ? {} : { stateDir }),
  }),
)
await Promise.all(children.map(async (child) => child.start()))
console.log(JSON.stringify({ pids: children.map((child) => child.pid) }))
process.stdin.once('data', () => {
  if (how === 'throw') throw new Error('an uncaught exception')
  process.exit(0)
})
