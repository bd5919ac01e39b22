/**
 * A daemon as a process of its own that kills itself with SIGKILL at a named point. Options come as JSON in the first
 * argument. On stdin, `arm NAME#N` makes it die at the Nth time that it passes NAME; `count` prints how often each was passed.
 */
import { createInterface } from 'node:readline'
import { type DaemonOptions, startDaemon } from '../../src/index.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as DaemonOptions
let armed: { name: string; n: number } | undefined
let passed = new Map<string, number>()

function failpoint(name: string): void {
  const n = (passed.get(name) ?? 0) + 1
  passed.set(name, n)
  if (armed?.name === name && armed.n === n) process.kill(process.pid, 'SIGKILL')
}

const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

createInterface({ input: process.stdin }).on('line', (line) => {
  const [word, at = ''] = line.split(' ')
  if (word === 'arm') {
    const [name = '', n = '1'] = at.split('#')
    passed = new Map()
    armed = at === '' ? undefined : { name, n: Number(n) }
    say({ event: 'armed' })
  } else if (word === 'count') say({ event: 'counts', counts: Object.fromEntries(passed) })
})

const daemon = await startDaemon({ ...options, failpoint, logLevel: process.env['DAEMON_LOG'] ?? 'silent' })
say({ event: 'listening', url: daemon.url, token: daemon.token, recovered: daemon.recovered })
process.once('SIGTERM', () => void daemon.close().then(() => process.exit(0)))
