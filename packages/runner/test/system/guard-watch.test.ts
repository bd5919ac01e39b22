/** Guards that someone on the host takes away while a command runs, as `git config` does. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { guardsIn, lostGuards } from '../../src/box/guard-watch.ts'
import { parseMountInfo } from '../../src/isolation/mount-info.ts'
import { asProgram, type RunnerProgram, until, withoutBwrap, withoutRoot } from '../kit.ts'

const NOBODY = 65_534

async function onRepository(
  t: TestContext,
  uid: number,
): Promise<{ runner: RunnerProgram; project: string; stateDir: string }> {
  const parent = tempFolder(t, 'workspace')
  chmodSync(parent, 0o755)
  const project = join(parent, 'project')
  mkdirSync(project)
  execFileSync('git', ['init', '-q', project])
  execFileSync('chown', ['-R', `${uid}:${uid}`, parent])
  const stateDir = join(parent, 'state')
  const runner = await asProgram(t, stateDir, ['--allow-workspace', parent], uid === 0 ? {} : { uid, gid: uid })
  await runner.box({ id: 'b1', workspace: project })
  return { runner, project, stateDir }
}

/** Says whether the file can be written, again and again, each time with another number, until the file `stop` is there. */
const LOOK =
  'n=0; while [ ! -e stop ]; do n=$((n+1)); if [ ! -e .git/config ]; then echo $n missing; elif [ -w .git/config ]; then echo $n writable; else echo $n guarded; fi >next; mv next state; sleep 0.02; done'

/** What the command says about the file. It looked after this was called: the look before may be from an earlier moment. */
async function seenFromNow(project: string, wanted: 'guarded' | 'writable'): Promise<void> {
  const look = (): { number: number; seen: string } => {
    const [number = '0', seen = ''] = readText(join(project, 'state')).trim().split(' ')
    return { number: Number(number), seen }
  }
  const { number: before } = look()
  await until(look, ({ number, seen }) => number >= before + 2 && seen === wanted)
}

async function startLooking(runner: RunnerProgram, project: string): Promise<void> {
  await runner.call('POST', 'boxes/b1/exec', { execId: 'look', shell: LOOK })
  await seenFromNow(project, 'guarded')
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // not written yet
  }
}

/** Ends the command once its runner has noted what it saw. */
async function endLooking(
  runner: RunnerProgram,
  project: string,
): Promise<readonly { id: string; message: string; evidence: readonly string[] }[]> {
  await until(
    () => globSync(join(runner.stateDir, '**/look/notes')),
    (files) => files.length > 0,
  )
  writeFileSync(join(project, 'stop'), '')
  const { exit } = await runner.client.waitExec('b1', 'look')
  return exit?.diagnostics ?? []
}

function git(project: string, uid: number, ...args: readonly string[]): void {
  execFileSync('git', ['-C', project, ...args], {
    uid,
    gid: uid,
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
  })
}

describe(
  'a guarded file that is replaced on the host while a command runs',
  { skip: withoutBwrap || withoutRoot },
  async () => {
    for (const [who, uid] of [
      ['root', 0],
      ['a plain user', NOBODY],
    ] as const) {
      test(`is read-only again at once, and the record says guard_lost (runner of ${who})`, async (t) => {
        const { runner, project } = await onRepository(t, uid)
        await startLooking(runner, project)
        git(project, uid, 'config', 'user.name', 'host')
        await seenFromNow(project, 'guarded')
        const lost = (await endLooking(runner, project)).find(({ id }) => id === 'guard_lost')
        assert.deepEqual(lost?.evidence, ['.git/config'])
        assert.match(lost.message, /protected it again at once/)
        assert.match(readFileSync(join(project, '.git/config'), 'utf8'), /name = host/)
      })
    }

    test('is guarded again if all of .git is replaced, or the file is moved away', async (t) => {
      const { runner, project } = await onRepository(t, 0)
      await startLooking(runner, project)
      renameSync(join(project, '.git'), join(project, '.old'))
      mkdirSync(join(project, '.git'))
      await seenFromNow(project, 'guarded')
      renameSync(join(project, '.git/config'), join(project, '.git/config.bak'))
      await seenFromNow(project, 'guarded')
      const attack = await runner.run('b1', 'echo evil > .git/config')
      assert.notEqual(attack.exec.exit?.code, 0)
      assert.ok((await endLooking(runner, project)).some(({ id }) => id === 'guard_lost'))
    })

    test('is guarded again by the next runner if this one is killed meanwhile', async (t) => {
      const { runner, project, stateDir } = await onRepository(t, 0)
      await startLooking(runner, project)
      await runner.kill('SIGKILL')
      git(project, 0, 'config', 'user.name', 'host')
      await seenFromNow(project, 'writable')
      const next = await asProgram(t, stateDir, ['--allow-workspace', join(project, '..')])
      await seenFromNow(project, 'guarded')
      assert.ok((await endLooking(next, project)).some(({ id }) => id === 'guard_lost'))
    })
  },
)

test('guards are read from the arguments of a sandbox, and compared with what the kernel shows', () => {
  const args = [
    '--bind',
    '/w',
    '/w',
    '--bind',
    '/w/.git',
    '/w/.git',
    '--ro-bind',
    '/w/.git/con fig',
    '/w/.git/con fig',
    '--ro-bind',
    '/usr',
    '/usr',
  ]
  const guards = guardsIn(args.join('\0'), '/w')
  assert.deepEqual(guards, [
    { path: '/w/.git', mode: 'rw' },
    { path: '/w/.git/con fig', mode: 'ro' },
  ])
  const line = (at: string, options: string): string => `1 2 254:0 /x ${at} ${options} - ext4 /dev/vda rw\n`
  const all = line('/w/.git', 'rw,nosuid') + line('/w/.git/con\\040fig', 'ro,nosuid')
  assert.deepEqual(lostGuards(guards, parseMountInfo(all)), [])
  assert.deepEqual(
    lostGuards(guards, parseMountInfo(line('/w/.git', 'rw,nosuid') + line('/w/.git/con\\040fig', 'rw'))),
    [guards[1]],
  )
  assert.deepEqual(lostGuards(guards, parseMountInfo('')), guards)
})
