/** A daemon in a separate process that reports its memory by kind on request. Run with `--expose-gc`. */
import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { startDaemon } from '@breakfall/daemon'

export type Memory = {
  readonly rss: number
  /** What malloc holds: SQLite's pages, buffers of the network. Null where the system does not tell. */
  readonly malloc: number | null
  readonly heap: number
  readonly journalHeap: number
  /** What V8 has taken for both heaps, used or not. */
  readonly taken: number
  readonly resources: number
  readonly sessions: number
}

const [stateDir = '', baseUrl = ''] = process.argv.slice(2)
let journal: Worker | undefined
process.once('worker', (worker) => {
  journal = worker
})
const daemon = await startDaemon({ stateDir, model: { baseUrl, name: 'bench' }, logLevel: 'silent' })
process.send?.({ url: daemon.url, token: daemon.token })
process.on('message', (asked) => void (asked === 'memory' ? tell() : end()))

async function tell(): Promise<void> {
  globalThis.gc?.()
  const { heapUsed: heap, heapTotal } = process.memoryUsage()
  const { used_heap_size: journalHeap = 0, total_heap_size: total = 0 } = (await journal?.getHeapStatistics()) ?? {}
  process.send?.({
    rss: process.memoryUsage.rss(),
    malloc: mallocBytes(),
    heap,
    journalHeap,
    taken: heapTotal + total,
    resources: process.getActiveResourcesInfo().length,
    sessions: daemon.sessions.loader.count,
  } satisfies Memory)
}

async function end(): Promise<void> {
  await daemon.close()
  process.exit(0)
}

/** With one arena (`MALLOC_ARENA_MAX=1`), everything malloc holds is in the mapping that the kernel calls the heap. */
function mallocBytes(): number | null {
  try {
    const [, kib] = /\[heap\]\n(?:.*\n)*?Rss: +(\d+) kB/.exec(readFileSync('/proc/self/smaps', 'utf8')) ?? []
    return kib === undefined ? null : Number(kib) * 1024
  } catch {
    return null // a system without /proc
  }
}
