// A supervisor with three children and their grandchildren. One ignores SIGTERM, one leaves its session.
// Prints their pids, then waits for a line of input and ends as its argument says.
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
