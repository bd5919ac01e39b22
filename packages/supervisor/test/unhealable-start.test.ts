import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { isUnhealableStart } from '../src/unhealable-start.ts'

const start = (...stderrTail: string[]) => ({ phase: 'starting', endedBy: null, stderrTail }) as const

test('a file of the command that is missing, as the program says, cannot be healed by a restart', (t) => {
  const folder = tempFolder(t)
  const missing = start("gguf_init_from_file: failed to open GGUF file 'qwen.gguf' (No such file or directory)", 'bye')
  assert.equal(isUnhealableStart(missing, ['-m', 'qwen.gguf'], folder), true)
  assert.equal(isUnhealableStart(missing, ['--model=qwen.gguf'], folder), true)
  assert.equal(
    isUnhealableStart(missing, ['-m', 'other.gguf'], folder),
    false,
    'the program complains about another file',
  )
  assert.equal(isUnhealableStart(start('it crashed'), ['-m', 'qwen.gguf'], folder), false, 'it complains about no file')
  writeFileSync(join(folder, 'qwen.gguf'), 'GGUF')
  assert.equal(isUnhealableStart(missing, ['-m', 'qwen.gguf'], folder), false, 'the file is there by now')
})

test('an option that the program rejects cannot be healed by a restart', (t) => {
  const folder = tempFolder(t)
  const rejected = start('error: invalid argument: --ctx-sice')
  assert.equal(isUnhealableStart(rejected, ['--ctx-sice', '4096'], folder), true)
  assert.equal(isUnhealableStart(rejected, ['--ctx-size', '4096'], folder), false)
})

test('a server that was ready, or that we ended, is judged by other rules', (t) => {
  const folder = tempFolder(t)
  const missing = start('cannot open qwen.gguf')
  assert.equal(isUnhealableStart({ ...missing, phase: 'busy' }, ['qwen.gguf'], folder), false)
  assert.equal(isUnhealableStart({ ...missing, endedBy: 'start_limit' }, ['qwen.gguf'], folder), false)
})
