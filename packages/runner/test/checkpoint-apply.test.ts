/** A restore whose process dies, or whose disk fails, at each of its steps: every path holds its old or its new content. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fs, { constants } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { type ApplyContext, type Applied, applyPlan, removeStaging } from '../src/checkpoint/apply.ts'
import type { RestorePlan } from '../src/checkpoint/plan.ts'
import { openFolder } from '../src/files/walk.ts'

const oidOf = (text: string): string => createHash('sha1').update(text).digest('hex')
const write = (path: string, text: string, isNew: boolean, mode = '100644') => ({
  path,
  oid: oidOf(text),
  mode,
  perm: 0o640,
  isNew,
})
const TEXTS = ['edited again', 'back', 'file again', 'target', 'deep again']
const BLOBS = new Map(TEXTS.map((text) => [oidOf(text), Buffer.from(text)]))

const PLAN: RestorePlan = {
  writes: [
    write('edited', 'edited again', false),
    write('gone/back', 'back', true),
    write('was-a-folder', 'file again', true),
    write('link', 'target', false, '120000'),
    write('twin', 'deep again', false),
  ],
  removals: ['added', 'new/deep/added', 'was-a-folder/in-it'],
  modes: [{ path: 'mode', perm: 0o600 }],
  folders: [{ path: 'empty/made', perm: 0o700, isMade: true }],
  emptied: ['new/deep', 'new', 'was-a-folder'],
  leftOut: [],
}

function makeWorkspace(folder: string): void {
  for (const path of ['new/deep', 'was-a-folder']) fs.mkdirSync(join(folder, path), { recursive: true })
  for (const path of ['edited', 'added', 'new/deep/added', 'was-a-folder/in-it', 'mode', 'twin', 'other'])
    fs.writeFileSync(join(folder, path), `${path} now`)
  fs.linkSync(join(folder, 'twin'), join(folder, 'same'))
  fs.symlinkSync('elsewhere', join(folder, 'link'))
}

/** What may be at each path: before, or after. */
const STATES: Readonly<Record<string, readonly (string | undefined)[]>> = {
  edited: ['edited now', 'edited again'],
  'gone/back': [undefined, 'back'],
  'was-a-folder': ['a folder', undefined, 'file again'],
  'was-a-folder/in-it': ['was-a-folder/in-it now', undefined],
  link: ['-> elsewhere', '-> target'],
  twin: ['twin now', 'deep again'],
  same: ['twin now'], // a second name of a file that is replaced
  added: ['added now', undefined],
  'new/deep/added': ['new/deep/added now', undefined],
  mode: ['mode now'],
  other: ['other now'],
}

function stateOf(file: string): string | undefined {
  try {
    const stat = fs.lstatSync(file)
    if (stat.isSymbolicLink()) return `-> ${fs.readlinkSync(file)}`
    return stat.isDirectory() ? 'a folder' : fs.readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

const CHANGES = [
  'renameSync',
  'linkSync',
  'unlinkSync',
  'mkdirSync',
  'rmdirSync',
  'symlinkSync',
  'chmodSync',
  'fchmodSync',
  'writeSync',
] as const

/** Which of the calls that change something fails: as in a process that is dead from then on, or only that one. */
type Failure = { count: number; at: number; readonly isDead: boolean }

function failures(t: TestContext, isDead: boolean): Failure {
  const { openSync } = fs
  const state: Failure = { count: 0, at: Number.POSITIVE_INFINITY, isDead }
  const step = (): void => {
    state.count += 1
    if (state.count === state.at || (isDead && state.count > state.at))
      throw Object.assign(new Error('input/output error'), { code: 'EIO' })
  }
  for (const name of CHANGES) {
    const real: (...args: never[]) => unknown = fs[name]
    t.mock.method(fs, name, (...args: never[]): unknown => {
      step()
      return real(...args)
    })
  }
  t.mock.method(fs, 'openSync', (path: fs.PathLike, flags: number, mode?: number): number => {
    if ((flags & constants.O_CREAT) !== 0) step()
    return openSync(path, flags, mode)
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  return state
}

async function restoreIn(folder: string, failure: Failure, at: number): Promise<Applied | undefined> {
  const context: ApplyContext = {
    open: () => openFolder(folder, []),
    owner: undefined,
    safeAt: BigInt(Date.now() + 3_600_000) * 1_000_000n,
    sizes: new Map([...BLOBS].map(([oid, { length }]) => [oid, length])),
    blobs: (oids) => Promise.resolve(new Map(oids.map((oid) => [oid, BLOBS.get(oid) ?? Buffer.alloc(0)]))),
    onStaging: () => undefined,
  }
  Object.assign(failure, { count: 0, at })
  try {
    return await applyPlan(context, PLAN)
  } catch {
    return undefined // nothing was changed, or its process is dead
  } finally {
    failure.at = Number.POSITIVE_INFINITY
  }
}

for (const [what, isDead] of [
  ['its process dies', true],
  ['the disk fails once', false],
] as const)
  test(`a restore leaves old or new content wherever ${what}`, async (t: TestContext) => {
    const parent = tempFolder(t)
    const failure = failures(t, isDead)
    for (let [at, isOver] = [1, false]; !isOver; at += 1) {
      const folder = join(parent, String(at))
      fs.mkdirSync(folder)
      makeWorkspace(folder)
      const applied = await restoreIn(folder, failure, at)
      isOver = failure.count < at
      const skipped = applied?.skipped.map(({ path }) => path) ?? []
      for (const [path, states] of Object.entries(STATES)) {
        const state = stateOf(join(folder, path))
        assert.ok(states.includes(state), `step ${at}: ${path} is ${JSON.stringify(state)}`)
        const isDone = state === states.at(-1) || skipped.includes(path) || path.startsWith('was-a-folder')
        assert.ok(isDone || isDead || applied === undefined, `step ${at}: ${path} is not reported as left alone`)
      }
      if (!isOver) continue
      assert.ok(at > 20, 'the steps were counted')
      assert.deepEqual(skipped, [])
      for (const [path, states] of Object.entries(STATES)) assert.equal(stateOf(join(folder, path)), states.at(-1))
      assert.equal(fs.statSync(join(folder, 'mode')).mode & 0o777, 0o600)
      assert.ok(!fs.readdirSync(folder).some((name) => name.startsWith('.breakfall-')))
    }
  })

test('a restore and its recovery remove what is theirs, and not what took the name of their folder', async (t) => {
  const folder = tempFolder(t)
  const content = Buffer.from('back')
  let staging = ''
  const took = (): void => {
    fs.renameSync(join(folder, staging), join(folder, 'renamed'))
    fs.mkdirSync(join(folder, staging, 'deep'), { recursive: true })
    fs.writeFileSync(join(folder, staging, 'deep/file'), 'a command made this')
  }
  await applyPlan(
    {
      open: () => openFolder(folder, []),
      owner: undefined,
      safeAt: 0n,
      sizes: new Map(),
      blobs: () => {
        took()
        return Promise.resolve(new Map([[oidOf('back'), content]]))
      },
      onStaging: (name) => (staging = name),
    },
    { ...PLAN, writes: [write('gone', 'back', true)], removals: [], modes: [], folders: [], emptied: [] },
  )
  using root = openFolder(folder, [])
  await removeStaging(root, staging)
  assert.equal(fs.readFileSync(join(folder, 'gone'), 'utf8'), 'back')
  assert.equal(fs.readFileSync(join(folder, staging, 'deep/file'), 'utf8'), 'a command made this')
  assert.deepEqual(fs.readdirSync(join(folder, 'renamed')), [])
  fs.rmSync(join(folder, staging), { recursive: true })
  fs.symlinkSync('renamed', join(folder, staging))
  fs.writeFileSync(join(folder, 'renamed/0'), 'linked')
  await removeStaging(root, staging)
  assert.equal(fs.readFileSync(join(folder, 'renamed/0'), 'utf8'), 'linked', 'a link is not followed')
})

test('a large restore takes content in parts, and lets others have their turn', async (t) => {
  const folder = tempFolder(t)
  const names = Array.from({ length: 260 }, (_, i) => `f${i}`)
  const oids = names.map(oidOf)
  const asked: (readonly string[])[] = []
  let [turns, isOver] = [0, false]
  const count = (): void => {
    turns += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const applied = await applyPlan(
    {
      open: () => openFolder(folder, []),
      owner: undefined,
      safeAt: 0n,
      sizes: new Map(oids.map((oid, i) => [oid, i < 10 ? 10 * 1024 * 1024 : 1])),
      blobs: (some) => {
        asked.push(some)
        return Promise.resolve(new Map(some.map((oid) => [oid, Buffer.from(oid)])))
      },
      onStaging: () => undefined,
    },
    {
      ...PLAN,
      writes: names.map((name) => write(name, name, true)),
      removals: [],
      modes: [],
      folders: [],
      emptied: [],
    },
  )
  isOver = true
  assert.deepEqual([applied.restored, applied.skipped], [260, []])
  assert.deepEqual(asked.flat(), oids)
  assert.deepEqual(
    asked.map(({ length }) => length),
    [2, 2, 2, 2, 2, 200, 50],
  )
  assert.ok(turns >= 5, `${turns} turns`)
  assert.equal(fs.readFileSync(join(folder, 'f259'), 'utf8'), oids[259])
})
