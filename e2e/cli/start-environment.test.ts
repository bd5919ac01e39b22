/** A bad working folder: the command prints one message with its exit code, never a stack trace. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { LAUNCHER, Place } from '../breakfall.ts'
import { LIMIT } from '../../test/kit/wait.ts'

test('in a removed folder a run says so with exit code 2, and commands that need no folder work', LIMIT, async () => {
  await using place = new Place()
  const here = async (args: string): Promise<{ code: number; stderr: string }> => {
    const script = 'mkdir gone; cd gone; rmdir ../gone; exec "$0" "$1" '
    const child = spawn('sh', ['-c', script + args, process.execPath, LAUNCHER], {
      cwd: place.folder,
      env: { PATH: process.env['PATH'], HOME: place.home },
    })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number]
    return { code, stderr }
  }
  const run = await here('run go')
  assert.equal(run.code, 2, run.stderr)
  assert.match(run.stderr, /^breakfall: The current folder no longer exists/)
  assert.doesNotMatch(run.stderr, /^ +at /m)
  assert.deepEqual((await here('explain 137')).code, 0)
})
