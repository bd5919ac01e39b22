/**
 * Sessions that append to PostgreSQL as fast as it answers, in a process of their own, as a daemon is. For each line on its standard
 * input, it writes for that many milliseconds and prints one line of JSON. `URL FOLDER SESSIONS EVENTS_EACH`.
 */
import { createInterface } from 'node:readline'
import { openPostgresStore } from '@breakfall/daemon'
import { quantile } from '../kit.ts'
import { append, newSession, type Writer } from '../fleet/sessions.ts'

const [url = '', folder = '', sessions = '1', eventsEach = '1'] = process.argv.slice(2)
const store = await openPostgresStore({ url, folder, name: folder, version: '0' })
const writers = await Promise.all(Array.from({ length: Number(sessions) }, () => newSession(store)))
process.stdout.write('{"event":"ready"}\n')

for await (const line of createInterface({ input: process.stdin })) {
  const forMs = Number(line)
  const from = performance.now()
  const cpuFrom = process.cpuUsage()
  const ms: number[] = []
  const write = async (writer: Writer): Promise<void> => {
    while (performance.now() - from < forMs) {
      const asked = performance.now()
      await append(store, writer, Number(eventsEach))
      ms.push(performance.now() - asked)
    }
  }
  await Promise.all(writers.map(write))
  const { user, system } = process.cpuUsage(cpuFrom)
  const count = ms.length * Number(eventsEach)
  const perSecond = (count * 1_000) / (performance.now() - from)
  const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)]
  process.stdout.write(`${JSON.stringify({ perSecond, p50, p99, cpuUs: (user + system) / count })}\n`)
}
await store.close()
