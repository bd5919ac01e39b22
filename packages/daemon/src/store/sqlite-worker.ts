/** The thread that owns the database. Takes the requests that have arrived, commits their writes together, then reads. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Anchor } from './anchor.ts'
import { Reserve } from './reserve.ts'
import { GroupCommit, type Write } from './sqlite-commit.ts'
import { storeFault } from './store-fault.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { lockFolder, openDatabase } from './sqlite-open.ts'
import {
  isWrite,
  type Opened,
  type Packed,
  packReplies,
  type Reply,
  type Request,
  unpack,
  type WorkerStart,
} from './sqlite-protocol.ts'

const REQUESTS_PER_COMMIT_MAX = 2_000
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
  port.on('message', (first: Packed) => {
    const requests = withWaiting(port, unpack(first))
    const closing = requests.find((request) => request.op === 'close')
    const writes = requests.filter((request) => isWrite(request))
    const replies: Reply[] = [...group.commit(writes.map((request) => writeOf(journal, request)))]
    for (const request of requests) {
      if (!isWrite(request) && request.op !== 'close') replies.push(readReply(journal, request))
    }
    port.postMessage(packReplies(replies))
    const deleted = requests.filter(({ op }) => op === 'deleteSession').length
    if (deleted > 0) removeRemains(journal, group)
    deletions += deleted
    if (deletions >= DELETIONS_PER_SWEEP) removeLeftKeys(journal, group)
    if (closing !== undefined) {
      isClosed = true
      close()
      port.postMessage(packReplies([{ id: closing.id, value: undefined }]))
      port.close()
    }
  })
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

/** Requests that arrived in the meantime join the same commit. */
function withWaiting(from: MessagePort, requests: Request[]): Request[] {
  while (requests.length < REQUESTS_PER_COMMIT_MAX) {
    const next: { readonly message: Packed } | undefined = receiveMessageOnPort(from)
    if (next === undefined) break
    unpack(next.message, requests)
  }
  return requests
}

function writeOf(journal: SqliteJournal, request: Request): Write {
  const essential = request.op === 'append' ? request.args[0].essential === true : request.op !== 'createSession'
  return { id: request.id, essential, run: () => call(journal, request) }
}

function readReply(journal: SqliteJournal, request: Request): Reply {
  try {
    return { id: request.id, value: call(journal, request) }
  } catch (error) {
    return { id: request.id, fault: storeFault(error).report }
  }
}

function call(journal: SqliteJournal, request: Request): unknown {
  switch (request.op) {
    case 'createSession':
      return journal.createSession(...request.args)
    case 'getSession':
      return journal.getSession(...request.args)
    case 'listSessions':
      return journal.listSessions(...request.args)
    case 'sessionsOfBox':
      return journal.sessionsOfBox(...request.args)
    case 'endedSessions':
      return journal.endedSessions(...request.args)
    case 'usage':
      return journal.usage(...request.args)
    case 'deleteSession':
      return journal.deleteSession(...request.args)
    case 'claim':
      return journal.claim(...request.args)
    case 'claimWork':
      return journal.claimWork(...request.args)
    case 'raiseEpoch':
      return journal.raiseEpoch(...request.args)
    case 'wake':
      return journal.owners.wake(...request.args)
    case 'waits':
      return journal.owners.waits()
    case 'heads':
      return journal.heads(...request.args)
    case 'append':
      return journal.append(...request.args)
    case 'read':
      return journal.read(...request.args)
    case 'getTurn':
      return journal.getTurn(...request.args)
    case 'listTurns':
      return journal.listTurns(...request.args)
    case 'getKey':
      return journal.getKey(...request.args)
    case 'faultGroups':
      return journal.faults.groups(...request.args)
    case 'faultOccurrences':
      return journal.faults.occurrences(...request.args)
    case 'quarantine':
      return journal.quarantine(...request.args)
    case 'close':
      return undefined // handled by `serve`, after everything else
  }
}
