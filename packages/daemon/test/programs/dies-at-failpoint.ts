/**
 * A daemon process that kills itself with SIGKILL at a named point. Options come as JSON in the first
 * argument; `crashAt` among them arms it before it starts. On stdin, `arm NAME#N` makes it die when it passes NAME for the Nth time; `count` prints how often it passed each point.
 */
import { createInterface } from 'node:readline'
import { type DaemonOptions, startDaemon } from '../../src/index.ts'

const { crashAt = '', ...options } = JSON.parse(process.argv[2] ?? '{}') as DaemonOptions & { crashAt?: string }
let armed = pointOf(crashAt)
let passed = new Map<string, number>()

function pointOf(text: string): { name: string; n: number } | undefined {
  const [name = '', n = '1'] = text.split('#')
  return name === '' ? undefined : { name, n: Number(n) }
}

function failpoint(name: string): void {
  const n = (passed.get(name) ?? 0) + 1
  passed.set(name, n)
  if (armed?.name === name && armed.n === n) process.kill(process.pid, 'SIGKILL')
}

const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

createInterface({ input: process.stdin }).on('line', (line) => {
  const [word, at = ''] = line.split(' ')
  if (word === 'arm') {
    passed = new Map()
    armed = pointOf(at)
    say({ event: 'armed' })
  } else if (word === 'count') say({ event: 'counts', counts: Object.fromEntries(passed) })
})

const daemon = await startDaemon({ ...options, failpoint, logLevel: process.env['DAEMON_LOG'] ?? 'silent' })
say({ event: 'listening', url: daemon.url, token: daemon.token, recovered: daemon.recovered })
process.once('SIGTERM', () => void daemon.close().then(() => process.exit(0)))
