/** A command as it may be shown: without the keys among its words. Pure. */
import { redact } from '@breakfall/faults'

export function shownCommand(command: readonly string[]): readonly string[] {
  return command.map((word, index) => {
    const [, flag, value] = /^(--?[\w-]+)=(.+)$/s.exec(word) ?? []
    if (flag !== undefined && value !== undefined && isSecret(flag)) return `${flag}=…`
    return isSecret(command[index - 1] ?? '') ? '…' : redact(word)
  })
}

// ---- details ----

/** `--api-key-file` and the like name a file, which may be shown. */
const isSecret = (flag: string): boolean => /^--?[\w-]*(?:api-?key|token|secret|password)$/i.test(flag)
