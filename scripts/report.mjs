/** Test reporter: every failure in full and once more as one line at the end, the slowest files and the totals. It does not list tests that pass. */
import { relative, resolve } from 'node:path'

export default async function* report(source) {
  const skipped = []
  const failed = []
  const files = []
  const stderr = new Map() // the end of each file's standard error
  const counts = { passed: 0, failed: 0, skipped: 0 }
  for await (const { type, data } of source) {
    if (type === 'test:pass' && data.details?.type !== 'suite') {
      if (data.skip !== undefined) {
        counts.skipped++
        skipped.push(`${data.name}${typeof data.skip === 'string' ? ` (${data.skip})` : ''}`)
      } else counts.passed++
    }
    if (type === 'test:fail') {
      if (data.details?.error?.failureType === 'subtestsFailed') continue
      counts.failed++
      const where = data.file ? `${relative(process.cwd(), data.file)}${data.line ? `:${data.line}` : ''}` : ''
      failed.push(
        `${where} ${data.name}: ${textOf(data.details?.error)
          .split(/\n\s+at /, 1)[0]
          .slice(0, 600)
          .replaceAll(/\s+/g, ' ')}`,
      )
      const isFile = resolve(data.name) === data.file // the file did not load, crashed or never ended: its standard error says why
      yield `\n✗ ${data.name}  ${where}\n${indent(data.details?.error)}\n${isFile ? `${indent(stderr.get(data.file) ?? '')}\n` : ''}`
    }
    if (type === 'test:summary' && data.file) files.push({ file: data.file, ms: data.duration_ms })
    if (type === 'test:stderr') {
      const file = resolve(data.file)
      stderr.set(file, ((stderr.get(file) ?? '') + data.message).slice(-2000))
    }
    if (type === 'test:stderr' || type === 'test:stdout') {
      if (process.env['BREAKFALL_TEST_OUTPUT']) yield data.message
    }
  }
  for (const name of skipped) yield `skipped: ${name}\n`
  const slowest = files.sort((a, b) => b.ms - a.ms).slice(0, SLOWEST)
  if (files.length > SLOWEST)
    yield `slowest: ${slowest.map(({ file, ms }) => `${relative(process.cwd(), file)} ${(ms / 1000).toFixed(1)} s`).join(', ')}\n`
  for (const line of failed) yield `failed: ${line}\n`
  yield `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`
}

const SLOWEST = 4 // where to look first when the tests become slow

function textOf(error) {
  const cause = error?.cause ?? error
  return String(cause?.stack ?? cause?.message ?? String(cause).trimEnd())
}

const indent = (error) =>
  textOf(error)
    .split('\n')
    .filter((line) => !/^\s+at .*\(node:/.test(line))
    .slice(0, 40)
    .map((line) => `    ${line}`)
    .join('\n')
