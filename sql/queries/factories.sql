-- allowed --
-- Factories that an administrator has put on the list.
select f as factory from cerebro_private.factories() f;
