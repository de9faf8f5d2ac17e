SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA landfall;
CREATE SEQUENCE landfall.attempt_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE landfall.attempts (
    id bigint NOT NULL,
    lane bigint NOT NULL,
    nonce bigint NOT NULL,
    epoch bigint NOT NULL,
    opened_ms bigint NOT NULL,
    decided_ms bigint,
    purpose text NOT NULL,
    hash text NOT NULL,
    base_block text NOT NULL,
    base_height bigint NOT NULL,
    expires_height bigint NOT NULL,
    members bigint[] NOT NULL,
    fate text,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY landfall.attempts ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE landfall.claim_waiters (
    space text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    waiter bigint NOT NULL
);
CREATE TABLE landfall.claims (
    space text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    owner bigint
);
CREATE TABLE landfall.counts (
    shard smallint NOT NULL,
    state smallint NOT NULL,
    transfers bigint NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE landfall.keys (
    hash bytea NOT NULL,
    transfer bigint NOT NULL,
    fingerprint bytea NOT NULL
);
CREATE TABLE landfall.lanes (
    code bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    rail text NOT NULL,
    epoch bigint NOT NULL,
    holder text,
    lease_until_ms bigint NOT NULL,
    base_nonce bigint,
    next_nonce bigint,
    halt_reason text,
    halt_at_ms bigint
)
WITH (fillfactor='20');
ALTER TABLE landfall.lanes ALTER COLUMN code ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME landfall.lanes_code_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE landfall.meta (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE landfall.payloads (
    id bigint NOT NULL,
    created_ms bigint NOT NULL,
    rail text NOT NULL,
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    receiver text NOT NULL,
    payload text NOT NULL,
    trail bytea NOT NULL
);
CREATE TABLE landfall.sightings (
    seq bigint NOT NULL,
    attempt bigint NOT NULL,
    sighting text NOT NULL
);
ALTER TABLE landfall.sightings ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME landfall.sightings_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE landfall.stages (
    code smallint NOT NULL,
    name text NOT NULL
);
CREATE TABLE landfall.states (
    code smallint NOT NULL,
    rail text NOT NULL,
    name text NOT NULL
);
CREATE TABLE landfall.trail (
    transfer bigint NOT NULL,
    version bigint NOT NULL,
    entries bytea NOT NULL
);
CREATE SEQUENCE landfall.transfer_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE landfall.transfers (
    id bigint NOT NULL,
    version bigint NOT NULL,
    attempt bigint,
    due_ms bigint,
    stage_retries bigint NOT NULL,
    retry_count bigint NOT NULL,
    updated_ms bigint NOT NULL,
    completed_ms bigint,
    state smallint NOT NULL,
    stage smallint,
    dead boolean NOT NULL,
    confirmed boolean NOT NULL,
    tx_hash text,
    aside text,
    error text
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05');
INSERT INTO landfall.attempts VALUES (1, 1, 42, 1, 1700000000000, 1700000000000, 'pay', 'working-0', 'base', 100, 200, '{8,9}', '{"fate":"landed","block_height":9,"block_hash":"block","outcomes":[{"outcome":"done"},{"outcome":"done"}]}', '\x0001ff00');
INSERT INTO landfall.attempts VALUES (2, 1, 43, 1, 1700000000000, 1700000000000, 'pay', 'working-1', 'base', 100, 200, '{10}', '{"fate":"sunk","kind":"nonce_passed","summary":"a later nonce was used","evidence":{"height":7}}', '\x0001ff01');
INSERT INTO landfall.attempts VALUES (3, 1, 44, 1, 1700000000000, NULL, 'pay', 'working-2', 'base', 100, 200, '{11,12}', NULL, '\x0001ff02');
INSERT INTO landfall.attempts VALUES (4, 1, 45, 1, 1700000000000, NULL, 'fence', 'working-3', 'base', 100, 200, '{}', NULL, '\x0001ff03');
INSERT INTO landfall.attempts VALUES (5, 2, 42, 1, 1700000000000, NULL, 'pay', 'halted-0', 'base', 100, 200, '{13}', NULL, '\x0001ff00');
INSERT INTO landfall.attempts VALUES (6, 2, 49, 1, 1700000000000, NULL, 'fence', 'halted-7', 'base', 100, 200, '{}', NULL, '\x0001ff07');
INSERT INTO landfall.claim_waiters VALUES ('near-registered:testnet:token.near', 'alice.near', 4);
INSERT INTO landfall.claims VALUES ('near-registered:testnet:token.near', 'alice.near', 3);
INSERT INTO landfall.claims VALUES ('near-registered:testnet:token.near', 'bob.near', NULL);
INSERT INTO landfall.claims VALUES ('near-registered:testnet:token.near', 'carol.near', NULL);
INSERT INTO landfall.counts VALUES (12, 15, 1);
INSERT INTO landfall.counts VALUES (12, 8, 1);
INSERT INTO landfall.counts VALUES (12, 12, 1);
INSERT INTO landfall.counts VALUES (12, 9, 1);
INSERT INTO landfall.counts VALUES (12, 2, 3);
INSERT INTO landfall.counts VALUES (12, 14, 1);
INSERT INTO landfall.counts VALUES (12, 7, 2);
INSERT INTO landfall.counts VALUES (12, 4, 4);
INSERT INTO landfall.counts VALUES (12, 6, 3);
INSERT INTO landfall.counts VALUES (12, 10, 1);
INSERT INTO landfall.counts VALUES (12, 13, 1);
INSERT INTO landfall.keys VALUES ('\xf8735433292a56c992500bcdc08edc8e843a9379c0dad2c5395f4a55aec59788', 1, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x5bdc72cbb681d7e742d5c73996a542a1e676b34b486188106ec98dc6c0e30300', 2, '\x24911b2a9da98448455a794a609930784fd2d80ad6b9b0b15cfacbe2e97289fc');
INSERT INTO landfall.keys VALUES ('\x148c5fde4c9a59c849be1f6f4fe0a0c3339fb5a3528e334dea9c118031017d28', 3, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\xfa1e01dcef5714c68dac7d30182544929ac0c82b2c09269e7d86c514fd9e9641', 4, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\xa96eded47fd1262389ae60602e5b6cfff10b13a81d7e3e01af227e053251adbc', 5, '\xde9a27dd790c896a69f3c383084a308673febbcbcea6725aa3d58e8ec6643a8d');
INSERT INTO landfall.keys VALUES ('\x6b8aeaf92d4d3120d2696124b13247db90de0923eb30f7a8df385465e396f235', 6, '\xa151dc2d058b38b4024311eb4208d6c8acd7f3ca8bb5aa84e6d2b42e7a63ed6a');
INSERT INTO landfall.keys VALUES ('\x42621c35809f4176a55604deaeaee93a663e0ebacdbf942d35e2660f36f83230', 7, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x50e672e74e6a4c2829ced5697973aa8fdbb25cee03011bb7f211b772b0260aa3', 8, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x75b97993e324acb89032ac3abe24f105d1f7695b91c24070613966176a487abe', 9, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x20d0897b288c9c304e90a80b594ec8a49bfe62bf3f8ae53473b44f7ed58a6bd2', 10, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x847c7c1ea657c523a8887e083b8ef5c6957ff53c5bac766057f0d31316e353af', 12, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\xb6f8e6005202facf36c6ec0ee23653283053ca98c759ce1219020efcc4690fc7', 11, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\x31a3448fd7a09e98f971269253389812797b71d56255bd4892ad5bd21b185783', 13, '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045');
INSERT INTO landfall.keys VALUES ('\xfa09955641764fef9e7baaea23eba63b9e668a591f46b253689ab49f69db1efd', 14, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.keys VALUES ('\x1bb2e364c1a65de81a0803e5842aed96e1902eb83d81880c0434fb38c4ff1d4e', 15, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.keys VALUES ('\x5d78d87ba8950143242399574516283eba75e9a9110b12b9fa811d0500ebb07b', 16, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.keys VALUES ('\xe0a2296d24a55ded015bf7df51cd4c0bfc30d30135df2bac71762755b1d89a02', 17, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.keys VALUES ('\xe64d36ee16bf43fac1370bfba497df51dadc96ae2b7519a55324138126d6b843', 18, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.keys VALUES ('\xe5cfe8241729accc20173414bbd08db0016f360dbbd8118de546d164f5229158', 19, '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676');
INSERT INTO landfall.lanes OVERRIDING SYSTEM VALUE VALUES (1, 'near:testnet:relay.near:ed25519:working', 'near', 1, 'one', 1794806351188, 41, 46, NULL, NULL);
INSERT INTO landfall.lanes OVERRIDING SYSTEM VALUE VALUES (2, 'near:testnet:relay.near:ed25519:halted', 'near', 1, 'one', 1794806351557, 41, 50, 'the ledger shows nonce 44, which no stored attempt explains', 1794806291588);
INSERT INTO landfall.lanes OVERRIDING SYSTEM VALUE VALUES (3, 'near:testnet:relay.near:ed25519:unused', 'near', 1, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO landfall.meta VALUES ('identity', 'e89b42b0e4af4ef2b9eb7b3abe178971');
INSERT INTO landfall.meta VALUES ('landfall schema', '1');
INSERT INTO landfall.payloads VALUES (1, 1700000000000, 'near', 'acme', 'waiting', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (2, 1700000000000, 'near', 'acme', 'failed', '\x24911b2a9da98448455a794a609930784fd2d80ad6b9b0b15cfacbe2e97289fc', 'nobody.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"nobody.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (3, 1700000000000, 'near', 'acme', 'registering', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (4, 1700000000000, 'near', 'acme', 'waits-for-it', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (5, 1700000000000, 'near', 'acme', 'found', '\xde9a27dd790c896a69f3c383084a308673febbcbcea6725aa3d58e8ec6643a8d', 'bob.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"bob.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (6, 1700000000000, 'near', 'acme', 'made', '\xa151dc2d058b38b4024311eb4208d6c8acd7f3ca8bb5aa84e6d2b42e7a63ed6a', 'carol.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"carol.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d5d');
INSERT INTO landfall.payloads VALUES (7, 1700000000000, 'near', 'acme', 'aside', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (8, 1700000000000, 'near', 'acme', 'paid-1', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (9, 1700000000000, 'near', 'acme', 'paid-2', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (10, 1700000000000, 'near', 'acme', 'sunk', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (11, 1700000000000, 'near', 'acme', 'carried-1', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (12, 1700000000000, 'near', 'acme', 'carried-2', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (13, 1700000000000, 'near', 'acme', 'carried-3', '\xf20644b800cac5614378df3536c3bd95f453329e8cb5ffb2021bd6a43a4fa045', 'alice.near', '{"rail":"near","network":"testnet","token":"token.near","sender":"relay.near","receiver_id":"alice.near","amount":"340282366920938463463374607431768211455","memo":"thanks, 🚢"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a225245434549564544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f524547495354524154494f4e227d2c7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.payloads VALUES (14, 1700000000000, 'internal', 'acme', 'init', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.payloads VALUES (15, 1700000000000, 'internal', 'acme', 'source-pending', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.payloads VALUES (16, 1700000000000, 'internal', 'acme', 'compensating', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.payloads VALUES (17, 1700000000000, 'internal', 'acme', 'rolled-back', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.payloads VALUES (18, 1700000000000, 'internal', 'acme', 'confirmed', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.payloads VALUES (19, 1700000000000, 'internal', 'acme', 'committed', '\x8f2618e579b21578fc73733bfdeb4ce83c08265bc000acc231316d371e1db676', '4001', '{"rail":"internal","source":"funding","target":"trading","user_id":4001,"asset_id":1,"asset":"BTC","decimals":8,"amount":18446744073709551615,"client_key":"the client''s own"}', '\x5b7b226174223a313730303030303030303030302c226576656e74223a22696e6974227d5d');
INSERT INTO landfall.sightings OVERRIDING SYSTEM VALUE VALUES (1, 3, '{"endpoint":"https://one.example","block_hash":"block-104","block_height":104,"was_final":false,"at_ms":1700000000000}');
INSERT INTO landfall.sightings OVERRIDING SYSTEM VALUE VALUES (2, 3, '{"endpoint":"https://two.example","block_hash":"block-104","block_height":null,"was_final":false,"at_ms":1700000000000}');
INSERT INTO landfall.stages VALUES (1, 'registration');
INSERT INTO landfall.stages VALUES (2, 'transfer');
INSERT INTO landfall.stages VALUES (3, 'verification');
INSERT INTO landfall.stages VALUES (4, 'internal');
INSERT INTO landfall.states VALUES (1, 'near', 'RECEIVED');
INSERT INTO landfall.states VALUES (2, 'near', 'QUEUED_REGISTRATION');
INSERT INTO landfall.states VALUES (3, 'near', 'REGISTERED');
INSERT INTO landfall.states VALUES (4, 'near', 'QUEUED_TRANSFER');
INSERT INTO landfall.states VALUES (5, 'near', 'SUBMITTED');
INSERT INTO landfall.states VALUES (6, 'near', 'QUEUED_VERIFICATION');
INSERT INTO landfall.states VALUES (7, 'near', 'COMPLETED');
INSERT INTO landfall.states VALUES (8, 'near', 'FAILED');
INSERT INTO landfall.states VALUES (9, 'internal', 'init');
INSERT INTO landfall.states VALUES (10, 'internal', 'source_pending');
INSERT INTO landfall.states VALUES (11, 'internal', 'source_done');
INSERT INTO landfall.states VALUES (12, 'internal', 'target_pending');
INSERT INTO landfall.states VALUES (13, 'internal', 'compensating');
INSERT INTO landfall.states VALUES (14, 'internal', 'committed');
INSERT INTO landfall.states VALUES (15, 'internal', 'rolled_back');
INSERT INTO landfall.states VALUES (16, 'internal', 'failed');
INSERT INTO landfall.trail VALUES (2, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a224641494c4544227d5d');
INSERT INTO landfall.trail VALUES (5, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.trail VALUES (6, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a2252454749535445524544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.trail VALUES (7, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225345545f4153494445227d5d');
INSERT INTO landfall.trail VALUES (8, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (9, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (8, 3, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22434f4d504c45544544227d5d');
INSERT INTO landfall.trail VALUES (9, 3, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22434f4d504c45544544227d5d');
INSERT INTO landfall.trail VALUES (10, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (10, 3, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225155455545445f5452414e53464552227d5d');
INSERT INTO landfall.trail VALUES (11, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (12, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (13, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a225355424d4954544544227d2c7b226174223a313730303030303030303030302c226576656e74223a225155455545445f564552494649434154494f4e227d5d');
INSERT INTO landfall.trail VALUES (15, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f70656e64696e67227d5d');
INSERT INTO landfall.trail VALUES (16, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f646f6e65227d2c7b226174223a313730303030303030303030302c226576656e74223a227461726765745f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22636f6d70656e736174696e67227d5d');
INSERT INTO landfall.trail VALUES (17, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f646f6e65227d2c7b226174223a313730303030303030303030302c226576656e74223a227461726765745f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22636f6d70656e736174696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22726f6c6c65645f6261636b227d5d');
INSERT INTO landfall.trail VALUES (18, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f646f6e65227d2c7b226174223a313730303030303030303030302c226576656e74223a227461726765745f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22434f4e4649524d4544227d5d');
INSERT INTO landfall.trail VALUES (19, 2, '\x5b7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22736f757263655f646f6e65227d2c7b226174223a313730303030303030303030302c226576656e74223a227461726765745f70656e64696e67227d2c7b226174223a313730303030303030303030302c226576656e74223a22434f4e4649524d4544227d2c7b226174223a313730303030303030303030302c226576656e74223a22636f6d6d6974746564227d5d');
INSERT INTO landfall.transfers VALUES (1, 1, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 2, 1, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (2, 2, NULL, NULL, 2, 2, 1700000000000, 1700000000000, 8, NULL, true, false, NULL, NULL, '{"error_type":"invalid_receiver","message":"nobody.near does not exist","retry_count":2,"will_retry":false}');
INSERT INTO landfall.transfers VALUES (3, 1, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 2, 1, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (4, 1, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 2, 1, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (5, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 4, 2, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (6, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 4, 2, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (7, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 4, 2, false, false, NULL, 'more than the relay has', NULL);
INSERT INTO landfall.transfers VALUES (8, 3, NULL, NULL, 0, 0, 1700000000000, 1700000000000, 7, NULL, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (9, 3, NULL, NULL, 0, 0, 1700000000000, 1700000000000, 7, NULL, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (10, 3, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 4, 2, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (11, 2, 3, NULL, 0, 0, 1700000000000, NULL, 6, NULL, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (12, 2, 3, NULL, 0, 0, 1700000000000, NULL, 6, NULL, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (13, 2, 5, NULL, 0, 0, 1700000000000, NULL, 6, NULL, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (14, 1, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 9, 4, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (15, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 10, 4, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (16, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 13, 4, false, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (17, 2, NULL, NULL, 0, 0, 1700000000000, 1700000000000, 15, NULL, true, false, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (18, 2, NULL, 1700000000000, 0, 0, 1700000000000, NULL, 12, 4, false, true, NULL, NULL, NULL);
INSERT INTO landfall.transfers VALUES (19, 2, NULL, NULL, 0, 0, 1700000000000, 1700000000000, 14, NULL, false, true, NULL, NULL, NULL);
SELECT pg_catalog.setval('landfall.attempt_ids', 6, true);
SELECT pg_catalog.setval('landfall.lanes_code_seq', 3, true);
SELECT pg_catalog.setval('landfall.sightings_seq_seq', 2, true);
SELECT pg_catalog.setval('landfall.transfer_ids', 19, true);
ALTER TABLE ONLY landfall.attempts
    ADD CONSTRAINT attempts_lane_nonce_key UNIQUE (lane, nonce);
ALTER TABLE ONLY landfall.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY landfall.claim_waiters
    ADD CONSTRAINT claim_waiters_pkey PRIMARY KEY (space, key, waiter);
ALTER TABLE ONLY landfall.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (space, key);
ALTER TABLE ONLY landfall.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (shard, state);
ALTER TABLE ONLY landfall.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY landfall.lanes
    ADD CONSTRAINT lanes_id_key UNIQUE (id);
ALTER TABLE ONLY landfall.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (code);
ALTER TABLE ONLY landfall.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY landfall.payloads
    ADD CONSTRAINT payloads_pkey PRIMARY KEY (id);
ALTER TABLE ONLY landfall.sightings
    ADD CONSTRAINT sightings_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY landfall.stages
    ADD CONSTRAINT stages_name_key UNIQUE (name);
ALTER TABLE ONLY landfall.stages
    ADD CONSTRAINT stages_pkey PRIMARY KEY (code);
ALTER TABLE ONLY landfall.states
    ADD CONSTRAINT states_pkey PRIMARY KEY (code);
ALTER TABLE ONLY landfall.states
    ADD CONSTRAINT states_rail_name_key UNIQUE (rail, name);
ALTER TABLE ONLY landfall.trail
    ADD CONSTRAINT trail_pkey PRIMARY KEY (transfer, version);
ALTER TABLE ONLY landfall.transfers
    ADD CONSTRAINT transfers_pkey PRIMARY KEY (id);
CREATE INDEX attempts_open ON landfall.attempts USING btree (lane, nonce) WHERE (decided_ms IS NULL);
CREATE INDEX payloads_receiver ON landfall.payloads USING btree (receiver, id);
CREATE INDEX sightings_attempt ON landfall.sightings USING btree (attempt, seq);
CREATE INDEX transfers_dead ON landfall.transfers USING btree (id) WHERE dead;
CREATE INDEX transfers_due ON landfall.transfers USING btree (stage, due_ms, id) WHERE (due_ms IS NOT NULL);
