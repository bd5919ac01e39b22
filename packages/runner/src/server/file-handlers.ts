/** Files of a workspace over HTTP. */
import { closeSync, createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { classify, Fault, isFault } from '@breakfall/faults'
import { invalidRequest } from '@breakfall/wire/internal'
import { bodyChunks, type RouteResult } from '@breakfall/wire/node'
import type { Box } from '../box/box.ts'
import { wrongState } from '../box/states.ts'
import { isoTime } from '../lib/clock.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { workspaceOf } from '../box/workspace-access.ts'
import { listFiles } from '../files/list.ts'
import {
  deleteFile,
  matchesEtag,
  openFile,
  type OpenedFile,
  type Precondition,
  type WorkspaceAccess,
  writeFile,
} from '../files/workspace-files.ts'
import { cursorOf, keyOfCursor, queryNumber } from './paging.ts'
import { type ApiContext, boxOf, boxToChange, type Handler, type RunnerCall } from './handler-context.ts'
import { type ByteRange, rangeHeaders, rangeOf } from './ranges.ts'

export function fileHandlers(
  context: ApiContext,
): Record<'readFile' | 'writeFile' | 'deleteFile' | 'listFiles', Handler> {
  const { machineBootId } = context.host.clock
  return {
    readFile: (call) => read(call, workspaceOf(boxOf(context, call).stored, machineBootId)),
    writeFile: async (call) => {
      const admit = (): Box => changeable(boxToChange(context, call))
      const box = admit()
      refuseParts(call)
      const { etag, isNew } = await writeFile(
        workspaceOf(box.stored, machineBootId),
        pathOfCall(call),
        bounded(call, context.host.limits.bodySilenceMs),
        conditionOf(call),
        box.uploads,
        (work) =>
          box.exclusive(() => {
            admit() // a slow upload of an owner that was replaced meanwhile must not overwrite the new owner's file
            return box.checkpoints === undefined ? work() : box.checkpoints.fileChange(work)
          }),
      )
      return { status: isNew ? 201 : 200, json: { etag }, headers: { etag } }
    },
    deleteFile: async (call) => {
      const admit = (): Box => changeable(boxToChange(context, call))
      const box = admit()
      await box.exclusive(() => {
        admit()
        const work = (): void => deleteFile(workspaceOf(box.stored, machineBootId), pathOfCall(call), conditionOf(call))
        if (box.checkpoints === undefined) work()
        else box.checkpoints.fileChange(work)
      })
      return { status: 204 }
    },
    listFiles: async (call) => {
      const limit = queryNumber(call.query, 'limit', {
        min: 1,
        max: RUNNER_DEFAULTS.pageMax,
        byDefault: RUNNER_DEFAULTS.pageMax,
      })
      const glob = call.query.get('glob') ?? '*'
      const found = await listFiles(
        workspaceOf(boxOf(context, call).stored, machineBootId),
        glob,
        keyOfCursor(call.query),
        limit,
      )
      const next = found.next === undefined ? {} : { next: cursorOf(found.next) }
      return { status: 200, json: { files: found.files, ...next } }
    },
  }
}

// ---- details ----

const pathOfCall = (call: RunnerCall): string => call.params['path'] ?? ''

/** A box that is being removed accepts no more files; a stopped one does. */
function changeable(box: Box): Box {
  if (box.state === 'removing' || box.state === 'failed' || box.state === 'creating')
    throw wrongState(box.id, box.state)
  return box
}

async function read(call: RunnerCall, at: WorkspaceAccess): Promise<RouteResult> {
  const file = openFile(at, pathOfCall(call))
  let range: ByteRange | undefined
  try {
    if (isKnown(call, file)) {
      closeSync(file.fd)
      return { status: 304, headers: { etag: file.etag } }
    }
    const ifRange = call.req.headers['if-range']
    // A part of another version than the caller already has would corrupt its copy.
    range = ifRange === undefined || ifRange === file.etag ? rangeOf(call, file.bytes) : undefined
  } catch (error) {
    closeSync(file.fd)
    throw error
  }
  const headers = {
    ...rangeHeaders(range, file.bytes),
    etag: file.etag,
    'last-modified': new Date(file.modifiedAtMs).toUTCString(),
    'x-modified-at': isoTime(file.modifiedAtMs),
  }
  call.res.writeHead(range === undefined ? 200 : 206, headers)
  const { from, to } = range ?? { from: 0, to: file.bytes }
  if (call.method === 'HEAD' || to === from) {
    closeSync(file.fd)
    call.res.end()
    return undefined
  }
  await pipeline(createReadStream('', { fd: file.fd, start: from, end: to - 1, highWaterMark: 256 * 1024 }), call.res)
  return undefined
}

/** Whether the caller already has this version. Throws if it requires another one. */
function isKnown(call: RunnerCall, { etag }: OpenedFile): boolean {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = call.req.headers
  if (ifMatch !== undefined && !matchesEtag(ifMatch, etag))
    throw new Fault('precondition_failed', { facts: { name: pathOfCall(call).slice(0, 200) } })
  return ifNoneMatch !== undefined && matchesEtag(ifNoneMatch.replaceAll('W/', ''), etag)
}

/** Refuses partial and encoded uploads: storing them unchanged would write a wrong file. */
function refuseParts(call: RunnerCall): void {
  const { 'content-range': range, 'content-encoding': encoding } = call.req.headers
  if (range !== undefined)
    throw invalidRequest([{ field: 'content-range', expected: 'a whole file', got: range.slice(0, 50) }])
  if (encoding !== undefined && encoding !== 'identity')
    throw new Fault('unsupported_media_type', {
      facts: { limit: 'bytes without a content-encoding' },
      errorRaw: `content-encoding: ${encoding.slice(0, 50)}`,
    })
}

function conditionOf(call: RunnerCall): Precondition {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = call.req.headers
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*')
    throw invalidRequest([{ field: 'if-none-match', expected: '*', got: ifNoneMatch.slice(0, 50) }])
  return { ifMatch, ifNoneMatch }
}

async function* bounded(call: RunnerCall, silenceMs: number): AsyncGenerator<Buffer> {
  const max = RUNNER_DEFAULTS.filePutBytesMax
  const tooLarge = new Fault('payload_too_large', { facts: { limit: `at most ${max} bytes` } })
  if (Number(call.req.headers['content-length'] ?? 0) > max) throw tooLarge
  let bytes = 0
  try {
    for await (const chunk of bodyChunks(call.req, silenceMs)) {
      bytes += chunk.length
      if (bytes > max) throw tooLarge
      yield chunk
    }
  } catch (cause) {
    throw isFault(cause) ? cause : classify(cause, { boundary: 'client', signal: call.signal }) // the client disconnected
  }
  if (!call.req.complete) throw new Fault('invalid_request', { error: 'The body ended early. Nothing was written.' })
}
