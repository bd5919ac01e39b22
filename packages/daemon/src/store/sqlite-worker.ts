/** The thread that owns the database. Takes whatever requests have come in, commits their writes at once, then reads. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Anchor } from './anchor.ts'
import { Reserve } from './reserve.ts'
import { GroupCommit, storeFault, type Write, type Written } from './sqlite-commit.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { lockFolder, openDatabase } from './sqlite-open.ts'
import {
  isWrite,
  type Opened,
  packReplies,
  type Reply,
  type Request,
  unpack,
  type WorkerStart,
} from './sqlite-protocol.ts'

const REQUESTS_PER_COMMIT_MAX = 2_000

const { folder, port, options } = workerData as WorkerStart
let isClosed = false
let isRemoving = false

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
  const journal = new SqliteJournal(db)
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
      owner.close()
    },
  }
}

function serve({ journal, group, close }: Open): void {
  removeRemains(journal, group)
  port.on('message', (first: readonly unknown[]) => {
    const requests = withWaiting(port, unpack(first))
    const closing = requests.find((request) => request.op === 'close')
    const writes = requests.filter((request) => isWrite(request))
    const written = group.commit(writes.map((request) => writeOf(journal, request)))
    const replies: Reply[] = writes.map(({ id }, index) => ({ id, ...(written[index] as Written) }))
    for (const request of requests) {
      if (!isWrite(request) && request.op !== 'close') replies.push(readReply(journal, request))
    }
    port.postMessage(packReplies(replies))
    if (requests.some(({ op }) => op === 'deleteSession')) removeRemains(journal, group)
    if (closing !== undefined) {
      isClosed = true
      close()
      port.postMessage(packReplies([{ id: closing.id, value: undefined }]))
      port.close()
    }
  })
}

/** One piece, then whoever has asked for something meanwhile, then the next. */
function removeRemains(journal: SqliteJournal, group: GroupCommit): void {
  if (isRemoving || isClosed || !journal.hasRemains()) return
  isRemoving = true
  setImmediate(() => {
    isRemoving = false
    if (isClosed) return
    const [written] = group.commit([{ essential: false, run: () => journal.removeSome() }])
    if (written !== undefined && 'value' in written) removeRemains(journal, group) // no room: after the next deletion or start
  })
}

/** What else has arrived meanwhile joins the same commit. */
function withWaiting(from: MessagePort, requests: Request[]): Request[] {
  while (requests.length < REQUESTS_PER_COMMIT_MAX) {
    const next = receiveMessageOnPort(from) as { message: readonly unknown[] } | undefined
    if (next === undefined) break
    unpack(next.message, requests)
  }
  return requests
}

function writeOf(journal: SqliteJournal, request: Request): Write {
  const essential = request.op === 'append' ? request.args[0].essential === true : request.op !== 'createSession'
  return { essential, run: () => call(journal, request) }
}

function readReply(journal: SqliteJournal, request: Request): Reply {
  try {
    return { id: request.id, value: call(journal, request) }
  } catch (error) {
    return { id: request.id, fault: storeFault(error).report }
  }
}

function call(journal: SqliteJournal, request: Request): unknown {
  const operation = journal[request.op as Exclude<Request['op'], 'close'>] as (...args: readonly unknown[]) => unknown
  return operation.apply(journal, request.args)
}
