/** Does a daemon use more memory after many turns than after few? Sessions of ten turns, one after another. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { linePlot, report, round, table } from './kit.ts'
import type { Memory } from './programs/daemon-memory.ts'
import { chunkFrame } from './programs/stream-server.ts'

const TURNS = 36_000
const MARK_EVERY = 3_000
const TURNS_A_SESSION = 10
const AT_ONCE = 32
const GOAL_KIB = 0.25 // a turn, in the second half: less than the text of its events

const ANSWER = [chunkFrame('ok'), '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', '[DONE]']
  .map((frame) => `data: ${frame}\n\n`)
  .join('')

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
const model = createServer((req, res) => {
  req.resume().on('end', () => res.writeHead(200, { 'content-type': 'text/event-stream' }).end(ANSWER))
}).listen(0, '127.0.0.1')
await once(model, 'listening')
const modelUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`
const child = fork(new URL('./programs/daemon-memory.ts', import.meta.url), [folder, modelUrl], {
  execArgv: ['--expose-gc'],
  env: { ...process.env, MALLOC_ARENA_MAX: '1' },
})
const [{ url, token }] = (await once(child, 'message')) as [{ url: string; token: string }]
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })

/** The answer's text, whole or up to what is looked for in it. */
function ask(method: string, path: string, body?: object, until?: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const call = request(url + path, { method, headers, agent: until === undefined ? agent : false }, (res) => {
      let text = ''
      res.setEncoding('utf8')
      res.on('error', reject)
      res.on('end', () => resolve(text))
      res.on('data', (chunk: string) => {
        text += chunk
        if (until === undefined || !text.includes(until)) return
        resolve(text)
        res.removeAllListeners('error').on('error', () => undefined) // we hang up, in the middle of it
        res.destroy()
      })
    }).on('error', reject)
    call.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

async function memory(): Promise<Memory> {
  child.send('memory')
  const [told] = (await once(child, 'message')) as [Memory]
  return told
}

let begun = 0
let done = 0
const marks: { readonly turns: number; readonly memory: Memory }[] = [{ turns: 0, memory: await memory() }]

async function work(): Promise<void> {
  while (begun < TURNS) {
    const { id } = JSON.parse(await ask('POST', '/v1/sessions', { tools: [] })) as { id: string }
    for (let turn = 0; turn < TURNS_A_SESSION && begun < TURNS; turn += 1) {
      begun += 1
      const { seq } = JSON.parse(await ask('POST', `/v1/sessions/${id}/turns`, { prompt: 'go' })) as { seq: number }
      await ask('GET', `/v1/sessions/${id}/events?after=${seq}`, undefined, 'event: turn-end')
      done += 1
      if (done % MARK_EVERY === 0) marks.push({ turns: done, memory: await memory() })
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work))
child.send('end')
await once(child, 'exit')
agent.destroy()
model.close()
rmSync(folder, { recursive: true, force: true })

// ---- the report ----

const mib = (bytes: number | null): number | string => (bytes === null ? '–' : round(bytes / 2 ** 20))
const at = (turns: number): Memory => marks.findLast((mark) => mark.turns <= turns)?.memory as Memory
const [half, last] = [at(TURNS / 2), at(TURNS)]
const kept = ({ malloc, heap }: Memory): number => (malloc ?? 0) + heap
const kibATurn = (kept(last) - kept(half)) / 1024 / (TURNS / 2)
const residentKib = (last.rss - half.rss) / 1024 / (TURNS / 2)
const verdict = kibATurn <= GOAL_KIB ? 'met' : '**missed**'
report('memory', {
  title: 'What many turns leave behind in memory',
  text: [
    `A daemon in a separate process runs ${TURNS} turns of one short answer each, ${TURNS_A_SESSION} to a session, ${AT_ONCE} at once, with a reader for each turn. Its own heap is counted after a collection; the journal’s thread collects when V8 decides to. malloc is limited to one arena, which makes its share measurable.`,
    table(
      [
        'turns',
        'resident MiB',
        'malloc',
        'heap',
        'heap of the journal’s thread',
        'reserved for both heaps',
        'sessions in memory',
        'open resources',
      ],
      marks.map(({ turns, memory: { rss, malloc, heap, journalHeap, taken, sessions, resources } }) => [
        turns,
        mib(rss),
        mib(malloc),
        mib(heap),
        mib(journalHeap),
        mib(taken),
        sessions,
        resources,
      ]),
    ),
    `Memory grows until the caches are full and then stays level: SQLite keeps up to 32 MiB of the journal’s pages (malloc), the daemon 2,000 idle sessions (heap). In the second half of the turns malloc and the heap together changed by ${round(kibATurn)} KiB a turn. Goal: ${GOAL_KIB} KiB at most: ${verdict}. Resident memory changed by ${round(residentKib)} KiB a turn: it also includes the program itself and the space that V8 reserves for its two heaps before it collects, and seldom returns.`,
  ].join('\n\n'),
  svg: linePlot(
    'Memory by number of turns, MiB',
    [
      { name: 'resident', points: marks.map(({ turns, memory: { rss } }) => [turns, rss / 2 ** 20] as const) },
      {
        name: 'malloc',
        points: marks.map(({ turns, memory: { malloc } }) => [turns, (malloc ?? 0) / 2 ** 20] as const),
      },
      { name: 'heap', points: marks.map(({ turns, memory: { heap } }) => [turns, heap / 2 ** 20] as const) },
    ],
    { x: 'turns', y: 'MiB' },
  ),
})
