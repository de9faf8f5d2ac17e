; A stand-in for the shield pool, for tests: it reads a withdraw as the real program does, refuses a
; root that is not in the ring (0x1001) and a nullifier that is spent (0x1020), pays the outputs and
; the treasury from the pool, and notes the nullifier. It checks neither the proof nor the hash of the
; outputs, nor which accounts are whose: the runtime lets it take from its own alone.
;
; An account lies in the input as: 0 mark (255, or the number of the one it repeats), 8 key, 40 owner,
; 72 lamports, 80 length, 88 data, then room to grow, padding to 8 and 8 bytes more.
; The instruction's data: 0 tag, 1 proof, 261 root, 293 nullifier, 325 hash of the outputs, 357 amount,
; 365 nullifier again, 397 number of outputs, 398 outputs of 40 bytes each: recipient and amount.
; Accounts: 0 pool, 1 treasury, 2 ring, 3 shard, then the recipients, then the system program.

.globl entrypoint
entrypoint:
    ldxdw r2, [r1+0]
    jlt r2, 6, missing_accounts
    jgt r2, 10, missing_accounts
    ; Where each account is, as a list on the stack at r9.
    mov64 r9, r10
    sub64 r9, 128
    mov64 r3, r1
    add64 r3, 8
    mov64 r4, 0
each_account:
    mov64 r5, r4
    lsh64 r5, 3
    add64 r5, r9
    ldxb r6, [r3+0]
    jeq r6, 255, new_account
    lsh64 r6, 3
    add64 r6, r9
    ldxdw r6, [r6+0]
    stxdw [r5+0], r6
    add64 r3, 8
    ja next_account
new_account:
    stxdw [r5+0], r3
    ldxdw r6, [r3+80]
    add64 r3, r6
    ; 88, 10,240 to grow, and 7 to be rounded down from.
    add64 r3, 10335
    and64 r3, -8
    add64 r3, 8
next_account:
    add64 r4, 1
    jlt r4, r2, each_account

    ; The data is at r8, its outputs are r6.
    ldxdw r7, [r3+0]
    mov64 r8, r3
    add64 r8, 8
    jlt r7, 438, bad_length
    ldxb r5, [r8+0]
    jne r5, 2, bad_tag
    ldxb r6, [r8+397]
    jeq r6, 0, bad_length
    jgt r6, 5, bad_length
    mov64 r5, r6
    mul64 r5, 40
    add64 r5, 398
    jne r5, r7, bad_length
    mov64 r5, r6
    add64 r5, 5
    jne r5, r2, missing_accounts
    ldxdw r3, [r8+293]
    ldxdw r4, [r8+365]
    jne r3, r4, bad_nullifier
    ldxdw r3, [r8+301]
    ldxdw r4, [r8+373]
    jne r3, r4, bad_nullifier
    ldxdw r3, [r8+309]
    ldxdw r4, [r8+381]
    jne r3, r4, bad_nullifier
    ldxdw r3, [r8+317]
    ldxdw r4, [r8+389]
    jne r3, r4, bad_nullifier

    ldxdw r1, [r9+16]
    ldxdw r2, [r1+80]
    jne r2, 2056, bad_accounts
    add64 r1, 96
    mov64 r2, 64
each_root:
    jeq r2, 0, no_root
    ldxdw r3, [r1+0]
    ldxdw r4, [r8+261]
    jne r3, r4, next_root
    ldxdw r3, [r1+8]
    ldxdw r4, [r8+269]
    jne r3, r4, next_root
    ldxdw r3, [r1+16]
    ldxdw r4, [r8+277]
    jne r3, r4, next_root
    ldxdw r3, [r1+24]
    ldxdw r4, [r8+285]
    jne r3, r4, next_root
    ja root_found
next_root:
    add64 r1, 32
    sub64 r2, 1
    ja each_root
root_found:

    ; The shard is at r7. After the loop r1 is where the next nullifier goes.
    ldxdw r7, [r9+24]
    ldxw r2, [r7+88]
    mov64 r1, r7
    add64 r1, 92
    mov64 r5, r2
each_nullifier:
    jeq r5, 0, unspent
    ldxdw r3, [r1+0]
    ldxdw r4, [r8+293]
    jne r3, r4, next_nullifier
    ldxdw r3, [r1+8]
    ldxdw r4, [r8+301]
    jne r3, r4, next_nullifier
    ldxdw r3, [r1+16]
    ldxdw r4, [r8+309]
    jne r3, r4, next_nullifier
    ldxdw r3, [r1+24]
    ldxdw r4, [r8+317]
    jne r3, r4, next_nullifier
    ja double_spend
next_nullifier:
    add64 r1, 32
    sub64 r5, 1
    ja each_nullifier
unspent:
    mov64 r3, r2
    add64 r3, 1
    lsh64 r3, 5
    add64 r3, 4
    ldxdw r4, [r7+80]
    jgt r3, r4, shard_full
    stxdw [r10-8], r1
    stxdw [r10-16], r2

    ; The sum of the outputs is r0.
    mov64 r0, 0
    mov64 r1, 0
    mov64 r5, r8
    add64 r5, 398
each_output:
    mov64 r2, r1
    lsh64 r2, 3
    add64 r2, r9
    ldxdw r2, [r2+32]
    ldxdw r3, [r2+8]
    ldxdw r4, [r5+0]
    jne r3, r4, bad_recipient
    ldxdw r3, [r2+16]
    ldxdw r4, [r5+8]
    jne r3, r4, bad_recipient
    ldxdw r3, [r2+24]
    ldxdw r4, [r5+16]
    jne r3, r4, bad_recipient
    ldxdw r3, [r2+32]
    ldxdw r4, [r5+24]
    jne r3, r4, bad_recipient
    ldxdw r3, [r5+32]
    add64 r0, r3
    add64 r5, 40
    add64 r1, 1
    jlt r1, r6, each_output

    ; The amount is r1, the fee r2.
    ldxdw r1, [r8+357]
    mov64 r2, r1
    mul64 r2, 5
    div64 r2, 1000
    add64 r2, 2500000
    add64 r0, r2
    jne r0, r1, not_conserved
    ldxdw r3, [r9+0]
    ldxdw r4, [r3+72]
    jlt r4, r1, pool_short
    sub64 r4, r1
    stxdw [r3+72], r4
    ldxdw r3, [r9+8]
    ldxdw r4, [r3+72]
    add64 r4, r2
    stxdw [r3+72], r4
    mov64 r1, 0
    mov64 r5, r8
    add64 r5, 398
each_payment:
    mov64 r2, r1
    lsh64 r2, 3
    add64 r2, r9
    ldxdw r2, [r2+32]
    ldxdw r3, [r5+32]
    ldxdw r4, [r2+72]
    add64 r4, r3
    stxdw [r2+72], r4
    add64 r5, 40
    add64 r1, 1
    jlt r1, r6, each_payment

    ldxdw r1, [r10-8]
    ldxdw r3, [r8+293]
    stxdw [r1+0], r3
    ldxdw r3, [r8+301]
    stxdw [r1+8], r3
    ldxdw r3, [r8+309]
    stxdw [r1+16], r3
    ldxdw r3, [r8+317]
    stxdw [r1+24], r3
    ldxdw r2, [r10-16]
    add64 r2, 1
    stxw [r7+88], r2
    mov64 r0, 0
    exit
no_root:
    mov64 r0, 0x1001
    exit
double_spend:
    mov64 r0, 0x1020
    exit
shard_full:
    mov64 r0, 0x1021
    exit
bad_nullifier:
    mov64 r0, 0x1022
    exit
not_conserved:
    mov64 r0, 0x1031
    exit
bad_recipient:
    mov64 r0, 0x1034
    exit
bad_accounts:
    mov64 r0, 0x1050
    exit
pool_short:
    mov64 r0, 0x1055
    exit
bad_length:
    mov64 r0, 0x1060
    exit
missing_accounts:
    mov64 r0, 0x1062
    exit
bad_tag:
    mov64 r0, 0x1063
    exit
