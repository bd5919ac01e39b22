/** What the sandbox of this machine lacks, as a private runner reports it. */
import type { Finding } from './finding.ts'

export function isolationFindings(config: unknown): readonly Finding[] {
  const isolation = fieldOf(config, 'isolation')
  const lacks = fieldOf(isolation, 'lacks')
  if (!Array.isArray(lacks)) return []
  return lacks.map((lack: unknown) => ({
    check: 'sandbox',
    verdict: 'warn',
    found: `no ${textOf(lack, 'name')}: ${textOf(lack, 'because')}`,
    fix: textOf(lack, 'fix'),
  }))
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([key]) => key === name)?.[1]
    : undefined
}

function textOf(value: unknown, name: string): string {
  const field = fieldOf(value, name)
  return typeof field === 'string' ? field : ''
}
