/** The thread that owns the database. Takes the requests that have arrived, commits their writes together, then reads. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Anchor } from './anchor.ts'
import { Reserve } from './reserve.ts'
import { GroupCommit, type Write } from './sqlite-commit.ts'
import { storeFault } from './store-fault.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { lockFolder, openDatabase } from './sqlite-open.ts'
import {
  ACCESS,
  type Call,
  type Opened,
  type Operation,
  type Operations,
  type Reply,
  type Requests,
  type Results,
  type WorkerStart,
} from './sqlite-protocol.ts'

const CALLS_PER_COMMIT_MAX = 2_000
const PAGES_KEPT = 256 // free pages that the next sessions use: a megabyte
const PAGES_AT_ONCE = 512 // given back to the disk in one commit

const start: WorkerStart = workerData
const { folder, bootId, port, options } = start
let isClosed = false
const DELETIONS_PER_SWEEP = 1_000 // a sweep reads the keys of all sessions that were created with one
let isRemoving = false
let deletions = 0

try {
  serve(open())
} catch (error) {
  port.postMessage({ opened: false, fault: storeFault(error).report } satisfies Opened)
  port.close()
}

// ---- details, in the order they are used above ----

type Open = { journal: SqliteJournal; group: GroupCommit; close: () => void }

function open(): Open {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const owner = lockFolder(folder)
  const db = openDatabase(join(folder, 'journal.db'), options)
  const journal = new SqliteJournal(db, bootId)
  const anchor = new Anchor(join(folder, 'anchors'))
  const reserve = new Reserve(join(folder, 'reserve'), options.reserveBytes)
  reserve.fill()
  const problems = [...journal.compare(anchor.heads)]
  if (anchor.damaged > 0)
    problems.push({ sessionId: null, what: `${anchor.damaged} lines of the anchor cannot be read` })
  port.postMessage({ opened: true, problems } satisfies Opened)
  return {
    journal,
    group: new GroupCommit({ db, journal, anchor, reserve }),
    close: () => {
      db.close()
      anchor.close()
      owner.release()
    },
  }
}

function serve({ journal, group, close }: Open): void {
  removeRemains(journal, group)
  removeLeftKeys(journal, group)
  port.on('message', (first: Requests) => {
    const { calls, isLast } = gathered(first)
    const writes = calls.filter(({ op }) => ACCESS[op] === 'writes')
    const reads = calls.filter(({ op }) => ACCESS[op] === 'reads')
    const written = group.commit(writes.map((call) => writeOf(journal, call)))
    port.postMessage([...written, ...reads.map((call) => readReply(journal, call))])
    if (isLast) {
      isClosed = true
      close()
      port.close()
      return
    }
    const deleted = writes.filter(({ op }) => op === 'deleteSession').length
    if (deleted > 0) removeRemains(journal, group)
    deletions += deleted
    if (deletions >= DELETIONS_PER_SWEEP) removeLeftKeys(journal, group)
  })
}

/** With those that arrived in the meantime: they join the same commit. */
function gathered(first: Requests): { readonly calls: readonly Call[]; readonly isLast: boolean } {
  const calls: Call[] = []
  for (let next: Requests | undefined = first; next !== undefined; next = receiveMessageOnPort(port)?.message) {
    if (next === 'close') return { calls, isLast: true }
    calls.push(...next)
    if (calls.length >= CALLS_PER_COMMIT_MAX) break
  }
  return { calls, isLast: false }
}

/** If the disk is too full for it, it is done later. */
function removeLeftKeys(journal: SqliteJournal, group: GroupCommit): void {
  deletions = 0
  group.commit([{ id: 0, essential: false, run: () => journal.removeLeftKeys() }])
}

/** Removes one batch, lets waiting requests run, then removes the next. */
function removeRemains(journal: SqliteJournal, group: GroupCommit): void {
  if (isRemoving || isClosed) return
  if (!journal.hasRemains()) return shrink(journal, group)
  isRemoving = true
  setImmediate(() => {
    isRemoving = false
    if (isClosed) return
    // Essential: it makes room, so it may use the reserve of a full disk. If even that fails: again after the next deletion or start.
    const [reply] = group.commit([{ id: 0, essential: true, run: () => journal.removeSome() }])
    if (reply === undefined || 'fault' in reply) return
    if (journal.hasRemains()) removeRemains(journal, group)
    else shrink(journal, group)
  })
}

/** Gives the space of deleted sessions back to the disk, a batch of pages at a time. */
function shrink(journal: SqliteJournal, group: GroupCommit): void {
  if (isRemoving || isClosed || journal.pagesFree <= PAGES_KEPT) return
  isRemoving = true
  setImmediate(() => {
    isRemoving = false
    if (isClosed) return
    const before = journal.pagesFree
    const [reply] = group.commit([{ id: 0, essential: true, run: () => journal.freePages(PAGES_AT_ONCE) }])
    if (reply === undefined || 'fault' in reply || journal.pagesFree >= before) return // a file of an older version cannot shrink
    if (journal.pagesFree > PAGES_KEPT) removeRemains(journal, group)
    else journal.truncateLog()
  })
}

function writeOf(journal: Operations, call: Call): Write {
  const essential = call.op === 'append' ? call.args[0].essential === true : call.op !== 'createSession'
  return { id: call.id, essential, run: () => run(journal, call) }
}

function readReply(journal: Operations, call: Call): Reply {
  try {
    return { id: call.id, value: run(journal, call) }
  } catch (error) {
    return { id: call.id, fault: storeFault(error).report }
  }
}

const run = <Op extends Operation>(journal: Operations, { op, args }: Call<Op>): Results[Op] => journal[op](...args)
